//! `berth namespace apply`: creates or changes a namespace.

use berth_api::http::{Namespace, NamespaceCapabilities};
use clap::Args;

use crate::{
    complete,
    failure::{self, Failure},
    output,
    remote::Remote,
    source,
};

/// Arguments of `namespace apply`.
#[derive(Debug, Args)]
pub struct NamespaceApplyArgs {
    /// Name (letters, digits, dashes and underscores), or a file that describes it, in HCL or JSON; `-` for standard input
    #[arg(value_name = "NAME|FILE", add = complete::namespaces())]
    named: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Parent namespace; `''` for none
    #[arg(long, value_name = "NAME", add = complete::namespaces())]
    parent: Option<String>,
    /// Weight of its fair share among its siblings, 0.001 to 1000
    #[arg(long, value_name = "NUMBER")]
    weight: Option<f64>,
    /// Quota of this namespace and all below it; `''` for none
    #[arg(long, value_name = "NAME")]
    quota: Option<String>,
    /// Drivers that its tasks may use; `''` for any
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    drivers: Option<Vec<String>>,
    /// Drivers that its tasks may not use; `''` for none
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    no_drivers: Option<Vec<String>>,
}

impl NamespaceApplyArgs {
    /// Reads it if it is there, changes and writes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let described: Option<Namespace> = source::is_file(&self.named)
            .then(|| source::described(&self.named, berth_jobfile::parse_namespace))
            .transpose()?;
        let name = described.as_ref().map_or(&self.named, |namespace| &namespace.name).clone();
        let before = failure::found(remote.namespace_named(&name).await)?;
        let namespace = self.desired(described, before.as_ref(), &name);
        if before.as_ref() == Some(&namespace) {
            output::eprint_line("nothing to change");
            return Ok(());
        }
        remote.put_namespace(&namespace).await?;
        let action = if before.is_some() { "changed" } else { "made" };
        output::eprint_line(&format!("namespace {name} is {action}"));
        Ok(())
    }

    /// As a file describes it, or as it is; changed by what was named beside.
    fn desired(&self, described: Option<Namespace>, before: Option<&Namespace>, name: &str) -> Namespace {
        let unchanged =
            before.cloned().unwrap_or(Namespace { name: name.to_owned(), ..Namespace::default() });
        let mut namespace = match described {
            Some(described) => Namespace {
                create_index: unchanged.create_index,
                modify_index: unchanged.modify_index,
                ..described
            },
            None => unchanged,
        };
        self.change(&mut namespace);
        namespace
    }

    fn change(&self, namespace: &mut Namespace) {
        set(&mut namespace.description, &self.description);
        set(&mut namespace.parent, &self.parent);
        set(&mut namespace.weight, &self.weight);
        set(&mut namespace.quota, &self.quota);
        let mut capabilities = namespace.capabilities.take().unwrap_or_default();
        let listed = |drivers: &[String]| {
            let named: Vec<String> = drivers.iter().filter(|driver| !driver.is_empty()).cloned().collect();
            (!named.is_empty()).then_some(named)
        };
        set(&mut capabilities.enabled_task_drivers, &self.drivers.as_deref().map(listed));
        set(&mut capabilities.disabled_task_drivers, &self.no_drivers.as_deref().map(listed));
        namespace.capabilities = (capabilities != NamespaceCapabilities::default()).then_some(capabilities);
    }
}

/// Changes what is named.
fn set<T: Clone>(setting: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        setting.clone_from(value);
    }
}
