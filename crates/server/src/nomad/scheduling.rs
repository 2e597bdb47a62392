//! The scheduler's configuration.

use berth_api::http::{SchedulerConfiguration, SchedulerConfigurationRead, SchedulerConfigurationSet};
use berth_model::{
    Index,
    command::{Command, SetSchedulerConfig},
};

use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::convert,
};

/// Pools with settings of their own.
const POOLS_MAX: usize = 1024;

/// `GET /v1/operator/scheduler/configuration`
pub(super) async fn read(call: Call) -> Reply {
    let view = call.view();
    let config = view.scheduler_config();
    let answer = SchedulerConfigurationRead {
        scheduler_config: convert::scheduler_config(config),
        index: config.modify_index.0,
        last_contact: 0,
        known_leader: true,
    };
    reply::json(&call.query, &answer)
}

/// `PUT /v1/operator/scheduler/configuration`, with `?cas=` only if it was last set there.
pub(super) async fn set(mut call: Call) -> Reply {
    let request: SchedulerConfiguration = call.json().await?;
    if request.node_pools.len() > POOLS_MAX {
        let text =
            format!("NodePools has {} pools, at most {POOLS_MAX} may differ", request.node_pools.len());
        return Err(Failure::bad_request(text));
    }
    let only_if = call.query.number("cas")?.map(Index);
    let config = convert::scheduler_config_of_request(request).map_err(Failure::bad_request)?;
    let current = call.view().scheduler_config().modify_index;
    if only_if.is_some_and(|expected| expected != current) {
        let answer = SchedulerConfigurationSet { updated: false, index: current.0 };
        return reply::json(&call.query, &answer);
    }
    let command = Command::SetSchedulerConfig(Box::new(SetSchedulerConfig { config, only_if }));
    let index = call.propose(command).await?.0;
    reply::json(&call.query, &SchedulerConfigurationSet { updated: true, index })
}

/// `GET /v1/operator/scheduler/plans`: how the latest evaluations were answered, as far as this server still knows.
pub(super) async fn plans(call: Call) -> Reply {
    let plans = call.plans(None);
    let write = move || plans.iter().map(convert::plan_trace).collect::<Vec<_>>();
    reply::json(&call.query, &call.api.heavy.run(write).await)
}
