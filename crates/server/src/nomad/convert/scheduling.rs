//! The scheduler's configuration, in both directions.

use berth_api::http::{PoolScheduling, PreemptionConfig, SchedulerConfiguration};
use berth_model::scheduling::{Algorithm, LOST_NODES_MAX_PERCENT, PoolConfig, Preemption, SchedulerConfig};

/// As clients read it.
pub fn scheduler_config(config: &SchedulerConfig) -> SchedulerConfiguration {
    let preemption = &config.preemption;
    let pool = |pool: &PoolConfig| PoolScheduling {
        scheduler_algorithm: pool.algorithm.map(|algorithm| algorithm.as_str().to_owned()),
        memory_oversubscription_enabled: pool.memory_oversubscription,
    };
    SchedulerConfiguration {
        scheduler_algorithm: config.algorithm.as_str().to_owned(),
        memory_oversubscription_enabled: config.memory_oversubscription,
        reject_job_registration: false,
        pause_eval_broker: false,
        preemption_config: PreemptionConfig {
            system_scheduler_enabled: preemption.system,
            sys_batch_scheduler_enabled: preemption.sysbatch,
            batch_scheduler_enabled: preemption.batch,
            service_scheduler_enabled: preemption.service,
            batch_on_batch_enabled: preemption.batch_on_batch,
        },
        lost_nodes_max_percent: config.lost_nodes_max_percent(),
        node_pools: config.pools.iter().map(|(name, own)| (name.clone(), pool(own))).collect(),
        create_index: config.create_index.0,
        modify_index: config.modify_index.0,
    }
}

/// The configuration that a client sets.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn scheduler_config_of_request(request: SchedulerConfiguration) -> Result<SchedulerConfig, String> {
    let unbuilt = [
        ("RejectJobRegistration", request.reject_job_registration),
        ("PauseEvalBroker", request.pause_eval_broker),
    ];
    if let Some((name, _)) = unbuilt.iter().find(|(_, on)| *on) {
        return Err(format!("{name} is not supported yet: leave it out or set it to false"));
    }
    let percent = request.lost_nodes_max_percent;
    if percent > 100 {
        return Err(format!("LostNodesMaxPercent is {percent}: write at most 100, which is all nodes"));
    }
    let mut config = SchedulerConfig {
        algorithm: algorithm("SchedulerAlgorithm", &request.scheduler_algorithm)?,
        memory_oversubscription: request.memory_oversubscription_enabled,
        preemption: Preemption {
            system: request.preemption_config.system_scheduler_enabled,
            sysbatch: request.preemption_config.sys_batch_scheduler_enabled,
            service: request.preemption_config.service_scheduler_enabled,
            batch: request.preemption_config.batch_scheduler_enabled,
            batch_on_batch: request.preemption_config.batch_on_batch_enabled,
        },
        // The default is not written down: servers that do not know of it go on with what others write.
        lost_nodes_max_percent: (percent != 0 && percent != LOST_NODES_MAX_PERCENT).then_some(percent),
        ..SchedulerConfig::default()
    };
    for (name, own) in request.node_pools {
        let field = format!("NodePools.{name}.SchedulerAlgorithm");
        let algorithm = own.scheduler_algorithm.map(|text| algorithm(&field, &text)).transpose()?;
        let memory_oversubscription = own.memory_oversubscription_enabled;
        config.pools.insert(name, PoolConfig { algorithm, memory_oversubscription });
    }
    Ok(config)
}

fn algorithm(field: &str, text: &str) -> Result<Algorithm, String> {
    let known = if text.is_empty() { Some(Algorithm::default()) } else { Algorithm::parse(text) };
    known.ok_or_else(|| format!("{field} is `{}`: write `binpack` or `spread`", text.escape_default()))
}
