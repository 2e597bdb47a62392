//! Files and jobs.

use super::*;

/// A file in HCL, once its variables are gone.
pub(crate) static FILE: Schema = schema("job file", &[blocks("job", "", &JOB)]);

/// A job.
pub(crate) static JOB: Schema = Schema {
    what: "job",
    label: Some("ID"),
    fields: &[
        text("region", "Region"),
        text("namespace", "Namespace"),
        text("id", ""),
        text("name", "Name"),
        text("type", "Type"),
        whole("priority", "Priority"),
        flag("all_at_once", "AllAtOnce"),
        texts("datacenters", "Datacenters"),
        text("node_pool", "NodePool"),
        text_map("meta", "Meta"),
        blocks("constraint", "Constraints", &CONSTRAINT),
        blocks("affinity", "Affinities", &AFFINITY),
        blocks("spread", "Spreads", &SPREAD),
        blocks("group", "TaskGroups", &GROUP),
        blocks("task", "", &TASK),
        block("update", "Update", &UPDATE),
        block("migrate", "Migrate", &MIGRATE),
        block("reschedule", "Reschedule", &RESCHEDULE),
        block("periodic", "Periodic", &PERIODIC),
        block("parameterized", "ParameterizedJob", &PARAMETERIZED),
        block("multiregion", "Multiregion", &MULTIREGION),
        block("ui", "UI", &UI),
        block("vault", "", &VAULT),
        blocks("secret", "", &SECRET),
        flag("", "Stop"),
        text("", "ParentID"),
        flag("", "Dispatched"),
        text("", "Payload"),
        text("consul_namespace", "ConsulNamespace"),
        text("vault_namespace", "VaultNamespace"),
    ],
    server_owned: &[
        "Status",
        "StatusDescription",
        "Version",
        "VersionTag",
        "Stable",
        "SubmitTime",
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
        "PeriodicLaunch",
        "DispatchIdempotencyToken",
        "NomadTokenID",
        "ConsulToken",
        "VaultToken",
    ],
};

/// When a job is run again and again.
pub(crate) static PERIODIC: Schema = schema(
    "periodic",
    &[
        flag("enabled", "Enabled"),
        text("cron", "Spec"),
        texts("crons", "Specs"),
        flag("prohibit_overlap", "ProhibitOverlap"),
        text("time_zone", "TimeZone"),
        text("", "SpecType"),
    ],
);

/// What a dispatch may give.
pub(crate) static PARAMETERIZED: Schema = schema(
    "parameterized",
    &[
        text("payload", "Payload"),
        texts("meta_required", "MetaRequired"),
        texts("meta_optional", "MetaOptional"),
    ],
);

/// In which regions a job runs.
static MULTIREGION: Schema =
    schema("multiregion", &[block("strategy", "Strategy", &STRATEGY), blocks("region", "Regions", &REGION)]);

static STRATEGY: Schema =
    schema("strategy", &[whole("max_parallel", "MaxParallel"), text("on_failure", "OnFailure")]);

static REGION: Schema = labelled_schema(
    "region",
    "Name",
    &[
        whole("count", "Count"),
        texts("datacenters", "Datacenters"),
        text("node_pool", "NodePool"),
        text_map("meta", "Meta"),
    ],
);

/// What web pages show of a job.
static UI: Schema = schema("ui", &[text("description", "Description"), blocks("link", "Links", &LINK)]);

static LINK: Schema = schema("link", &[text("label", "Label"), text("url", "URL")]);
