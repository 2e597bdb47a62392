//! Flags that select items of a list: those that match an expression, and those of a page.

use clap::Args;

use crate::remote::{Page, Remote};

/// An expression that chooses items of a list.
#[derive(Debug, Clone, Args)]
pub struct FilterArgs {
    /// Filter expression on the fields that `-o json` prints, e.g. `Status == "running"`
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

impl FilterArgs {
    /// The server, whose lists have only such items.
    pub fn of(&self, remote: &Remote) -> Remote {
        remote.filtered(self.filter.as_deref())
    }
}

/// Which part of a long list is read.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// Maximum number of items; a note tells how to read the next page
    #[arg(long, value_name = "COUNT")]
    per_page: Option<u32>,
    #[command(flatten)]
    begin: PageStartArgs,
}

/// Where a page begins.
#[derive(Debug, Clone, Args)]
pub struct PageStartArgs {
    /// Token of the next page, from the note of the page before
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

impl PageArgs {
    /// The server, whose lists have only the items of this page.
    pub fn of(&self, remote: &Remote) -> Remote {
        self.begin.of(remote, self.per_page)
    }
}

impl PageStartArgs {
    /// The server, whose lists have only so many items from there on; all of them without a number.
    pub fn of(&self, remote: &Remote, items: Option<u32>) -> Remote {
        remote.paged(Page { items, begin: self.page_token.clone() })
    }
}
