//! The API as clients see it: a small cluster in memory, an engine that applies at once, and requests to the router.

mod agent;
mod allocations;
mod blocking;
mod client;
mod errors;
mod evaluations;
mod events;
mod exchange;
mod explain;
mod fake_engine;
mod gzip;
mod jobs;
mod launch;
mod limits;
mod logs;
mod nodes;
mod openapi;
mod operator;
mod pages;
mod plans;
mod routes;
mod scaling;
mod scheduling;
mod search;
mod tenants;
mod world;
