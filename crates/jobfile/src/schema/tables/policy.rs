//! What happens when a task, an allocation, a node or a version ends.

use super::*;

/// When a task is started again.
pub(crate) static RESTART: Schema = schema(
    "restart",
    &[
        whole("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("mode", "Mode"),
        flag("render_templates", "RenderTemplates"),
    ],
);

/// When an allocation is replaced.
pub(crate) static RESCHEDULE: Schema = schema(
    "reschedule",
    &[
        whole("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("delay_function", "DelayFunction"),
        duration("max_delay", "MaxDelay"),
        flag("unlimited", "Unlimited"),
    ],
);

/// How a new version replaces the old one.
pub(crate) static UPDATE: Schema = schema(
    "update",
    &[
        duration("stagger", "Stagger"),
        whole("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
        duration("progress_deadline", "ProgressDeadline"),
        whole("canary", "Canary"),
        flag("auto_revert", "AutoRevert"),
        flag("auto_promote", "AutoPromote"),
    ],
);

/// How allocations leave a node that is drained.
pub(crate) static MIGRATE: Schema = schema(
    "migrate",
    &[
        whole("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
    ],
);

/// What happens when a node goes silent.
pub(crate) static DISCONNECT: Schema = schema(
    "disconnect",
    &[
        duration("lost_after", "LostAfter"),
        duration("stop_on_client_after", "StopOnClientAfter"),
        flag("replace", "Replace"),
        text("reconcile", "Reconcile"),
    ],
);
