//! Stories of a node: events as lines of text, and the actions and reports that follow as expected text.

mod checks;
mod clock;
mod hooks;
mod limits;
mod predecessors;
mod restarts;
mod setup;
mod starts;
mod stops;
mod story;
mod survival;
mod task_commands;
mod updates;
