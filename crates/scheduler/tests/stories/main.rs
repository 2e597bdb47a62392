//! Stories about clusters, told in a little language; every plan in them is linted, and compared with a slow reference.

mod canaries;
mod check;
mod devices;
mod exact;
mod explain;
mod in_place;
mod plans;
mod preemption;
mod random;
mod story;
mod tenants;
mod updates;
