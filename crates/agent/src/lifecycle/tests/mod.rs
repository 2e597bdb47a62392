//! Stories of a node, told in lines, and what it does about them.

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
