//! `berth namespace status`: one namespace.

use berth_api::http::Namespace;
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{Column, Fields, Layout, Table, View, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `namespace status`.
#[derive(Debug, Args)]
pub struct NamespaceStatusArgs {
    /// The namespace's name
    #[arg(value_name = "NAME", add = complete::namespaces())]
    name: String,
    #[command(flatten)]
    show: ShowArgs,
}

impl NamespaceStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.show.show(remote, async |remote| remote.namespace_named(&self.name).await).await
    }
}

impl View for Namespace {
    fn text(&self, layout: Layout) -> String {
        let capabilities = self.capabilities.clone().unwrap_or_default();
        let drivers = |drivers: Option<Vec<String>>| drivers.unwrap_or_default().join(", ");
        let fields = Fields::new(layout)
            .with("Name", &self.name)
            .with_some("Description", &self.description)
            .with_some("Parent", &self.parent)
            .with("Weight", self.weight.to_string())
            .with_some("Quota", &self.quota)
            .with_some("Drivers", drivers(capabilities.enabled_task_drivers))
            .with_some("No drivers", drivers(capabilities.disabled_task_drivers));
        sections([fields.render(), meta(self, layout)])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

/// Its labels, when there are any.
fn meta(namespace: &Namespace, layout: Layout) -> String {
    let mut table = Table::new(layout, &[Column::id("meta"), Column::text("value")]);
    for (name, value) in namespace.meta.iter().flatten() {
        table.row([name.into(), value.into()]);
    }
    if table.is_empty() { String::new() } else { table.render() }
}
