//! `berth namespace apply`: makes a tenant, or changes it.

use berth_api::http::{Namespace, NamespaceCapabilities};
use clap::Args;

use crate::{
    complete,
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `namespace apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// Letters, digits, dashes and underscores
    #[arg(value_name = "NAME", add = complete::namespaces())]
    name: String,
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The namespace above it; `''` for none
    #[arg(long, value_name = "NAME", add = complete::namespaces())]
    parent: Option<String>,
    /// How much more than its siblings it should get, 0.001 to 1000
    #[arg(long, value_name = "NUMBER")]
    weight: Option<f64>,
    /// The quota that it and all below it keep to; `''` for none
    #[arg(long, value_name = "NAME")]
    quota: Option<String>,
    /// The only drivers that its tasks may use; `''` for any
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    drivers: Option<Vec<String>>,
    /// Drivers that its tasks may not use; `''` for none
    #[arg(long, value_name = "DRIVER", value_delimiter = ',')]
    no_drivers: Option<Vec<String>>,
}

impl Apply {
    /// Reads it if it is there, changes and writes it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let before = match remote.namespace_named(&self.name).await {
            Ok(namespace) => Some(namespace),
            Err(failure) if failure.exit() == Exit::NotFound => None,
            Err(failure) => return Err(failure),
        };
        let name = self.name.clone();
        let mut namespace = before.clone().unwrap_or(Namespace { name, ..Namespace::default() });
        self.change(&mut namespace);
        if before.as_ref() == Some(&namespace) {
            output::tell("that is how it is already: nothing is changed");
            return Ok(());
        }
        remote.put_namespace(&namespace).await?;
        let deed = if before.is_some() { "changed" } else { "made" };
        output::tell(&format!("namespace {} is {deed}", self.name));
        Ok(())
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
