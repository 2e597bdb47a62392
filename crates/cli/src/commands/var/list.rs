//! `berth var list`: the paths of variables.

use berth_api::http::VariableMetadata;
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    filter::{FilterArgs, PageArgs},
    output::{Column, Layout, Table, View, age, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `var list`.
#[derive(Debug, Args)]
pub struct VarListArgs {
    /// Only paths with this prefix
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true, add = complete::variables())]
    prefix: String,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pages: PageArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl VarListArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let remote = self.pages.of(&self.filter.of(remote));
        self.show.show(&remote, async |remote| remote.variables(&self.prefix).await).await
    }
}

const COLUMNS: &[Column] =
    &[Column::text("namespace"), Column::id("path"), Column::number("index"), Column::text("written")];

impl View for Vec<VariableMetadata> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no variables: `berth var put PATH NAME=VALUE` writes one\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        for variable in self {
            table.row([
                (&variable.namespace).into(),
                (&variable.path).into(),
                variable.modify_index.to_string().into(),
                age(variable.modify_time, now_ns()).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|variable| variable.path.clone()).collect()
    }
}
