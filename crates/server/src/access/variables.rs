//! Rights to variables, by namespace and path: the most specific rule that matches alone applies.

use super::{
    by_name::RightsByName,
    capability::{Capabilities, Capability},
};

/// Stands between a namespace and a path where the two are matched as one text: neither can hold it.
const BETWEEN: char = '\0';

/// What may be done with which variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VariableRights(RightsByName);

impl VariableRights {
    /// Everything with all of them.
    pub fn all() -> Self {
        let mut all = Self::default();
        all.add("*", "*", Capabilities::ALL);
        all
    }

    /// Adds what may be done with the variables of a path in a namespace; in both `*` stands for any text.
    pub fn add(&mut self, namespace: &str, path: &str, granted: Capabilities) {
        self.0.add(&named(namespace, path), granted);
    }

    /// Adds what its owner may do with this very variable, no letter of whose path stands for others, to what patterns say of it. A
    /// rule about exactly this path goes before, as with Nomad: what it denies stays denied.
    pub fn grant_own(&mut self, namespace: &str, path: &str, granted: Capabilities) {
        self.0.add_unless_named(&named(namespace, path), granted);
    }

    /// What may be done with a variable.
    pub fn with(&self, namespace: &str, path: &str) -> Capabilities {
        self.0.with(&named(namespace, path))
    }

    /// Whether it may be done with any variable at all.
    pub fn any(&self, capability: Capability) -> bool {
        self.0.any(capability)
    }
}

fn named(namespace: &str, path: &str) -> String {
    format!("{namespace}{BETWEEN}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(rules: &[(&str, &str, Capability)]) -> VariableRights {
        let mut rights = VariableRights::default();
        rules.iter().for_each(|(namespace, path, one)| rights.add(namespace, path, [*one].into()));
        rights
    }

    #[test]
    fn the_most_specific_rule_alone_applies() {
        let rights = rights(&[
            ("default", "*", Capability::VariablesList),
            ("default", "app/*", Capability::VariablesRead),
            ("default", "app/db", Capability::VariablesWrite),
            ("*", "app/*", Capability::VariablesDestroy),
        ]);
        let with = |namespace, path| rights.with(namespace, path);
        assert_eq!(with("default", "app/db"), [Capability::VariablesWrite].into());
        assert_eq!(with("default", "app/db2"), [Capability::VariablesRead].into());
        assert_eq!(with("default", "other"), [Capability::VariablesList].into());
        assert_eq!(with("team", "app/db"), [Capability::VariablesDestroy].into());
        assert_eq!(with("team", "other"), Capabilities::default());
        assert!(rights.any(Capability::VariablesDestroy));
        assert!(!VariableRights::default().any(Capability::VariablesList));
    }

    #[test]
    fn a_pattern_does_not_reach_from_the_namespace_into_the_path() {
        let rights = rights(&[("web-*", "secret", Capability::VariablesRead)]);
        assert!(rights.with("web-1", "secret").has(Capability::VariablesRead));
        assert_eq!(rights.with("web-1", "a/secret"), Capabilities::default());
        assert_eq!(rights.with("web", "secret"), Capabilities::default());
        assert!(VariableRights::all().with("any", "a/b/c").has(Capability::VariablesDestroy));
    }

    #[test]
    fn what_is_granted_of_one_variable_is_granted_of_no_other_whatever_its_path() {
        let mut rights = rights(&[("a", "jobs/*", Capability::VariablesWrite)]);
        let read = Capabilities::from([Capability::VariablesRead]);
        rights.grant_own("a", "jobs/web", read);
        rights.grant_own("a", "other/*", read);
        let both = [Capability::VariablesWrite, Capability::VariablesRead].into();
        assert_eq!(rights.with("a", "jobs/web"), both, "besides what the patterns say");
        assert_eq!(rights.with("a", "jobs/web2"), [Capability::VariablesWrite].into());
        assert_eq!(
            (rights.with("a", "other/*"), rights.with("a", "other/x")),
            (read, Capabilities::default())
        );
        assert_eq!(rights.with("b", "jobs/web"), Capabilities::default());
    }

    #[test]
    fn a_rule_about_exactly_that_path_goes_before_what_its_owner_may_do() {
        let mut rights = rights(&[("a", "jobs/*", Capability::VariablesWrite)]);
        rights.add("a", "jobs/denied", Capabilities::default());
        for path in ["jobs/denied", "jobs/web"] {
            rights.grant_own("a", path, [Capability::VariablesRead].into());
        }
        assert_eq!(rights.with("a", "jobs/denied"), Capabilities::default());
        assert!(rights.with("a", "jobs/web").has(Capability::VariablesRead));
    }

    #[test]
    fn what_is_added_to_a_rule_is_granted_beside_what_it_said() {
        let rights = rights(&[
            ("a", "b*", Capability::VariablesRead),
            ("a", "b*", Capability::VariablesList),
            ("a", "b", Capability::VariablesList),
            ("a", "b", Capability::VariablesWrite),
        ]);
        assert_eq!(rights.with("a", "bc"), [Capability::VariablesRead, Capability::VariablesList].into());
        assert_eq!(rights.with("a", "b"), [Capability::VariablesWrite, Capability::VariablesList].into());
    }
}
