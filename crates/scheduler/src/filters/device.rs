//! A task runs where there are the devices and cores that it asks for, whoever holds them now.

use std::borrow::Cow;

use berth_model::{
    constraint::Operator,
    device::{DeviceAsk, NodeDevice},
    node::Node,
};

use super::{Filter, FilterRefusal, FilterRule, compare::satisfies, quantity::in_one_unit};

pub(super) const RULE: FilterRule = FilterRule {
    name: "device",
    passes: "nodes that have the devices and cores of all tasks, whoever holds them now",
    is_for_running: true,
    add: |_, group, checks| {
        group.devices().for_each(|ask| checks.push(Box::new(DeviceFilter::new(ask))));
        if group.cores() > 0 {
            checks.push(Box::new(CoreFilter(group.cores())));
        }
    },
};

/// What one ask says of devices, understood once.
#[derive(Debug)]
pub struct DeviceRequest {
    /// As it stands in the job.
    pub ask: DeviceAsk,
    conditions: Vec<DeviceCondition>,
    affinities: Vec<(DeviceCondition, f64)>,
}

impl DeviceRequest {
    /// Parses an ask.
    pub fn new(ask: &DeviceAsk) -> Self {
        let conditions = ask.constraints.iter().map(|c| DeviceCondition::new(&c.left, c.operator, &c.right));
        let affinities = ask
            .affinities
            .iter()
            .map(|a| (DeviceCondition::new(&a.left, a.operator, &a.right), f64::from(a.weight)));
        Self { ask: ask.clone(), conditions: conditions.collect(), affinities: affinities.collect() }
    }

    /// Whether such devices will do.
    pub fn accepts(&self, device: &NodeDevice) -> bool {
        self.ask.names(device) && self.conditions.iter().all(|condition| condition.holds(device))
    }

    /// -1 for devices that meet all affinities with a negative weight, to 1 for those that meet all others.
    pub fn affinity(&self, device: &NodeDevice) -> f64 {
        let met = self.affinities.iter().filter(|(affinity, _)| affinity.holds(device));
        let met: f64 = met.map(|(_, weight)| weight).sum();
        let weights: f64 = self.affinities.iter().map(|(_, weight)| weight.abs()).sum();
        if weights == 0.0 { 0.0 } else { met / weights }
    }
}

/// A comparison of what a device is like.
#[derive(Debug)]
struct DeviceCondition {
    left: DeviceOperand,
    operator: Operator,
    right: DeviceOperand,
}

#[derive(Debug)]
enum DeviceOperand {
    Literal(String),
    /// `${device.NAME}`
    Device(String),
}

impl DeviceCondition {
    fn new(left: &str, operator: Operator, right: &str) -> Self {
        Self { left: DeviceOperand::parse(left), operator, right: DeviceOperand::parse(right) }
    }

    fn holds(&self, device: &NodeDevice) -> bool {
        let (left, right) = (self.left.value(device), self.right.value(device));
        let plain = left.as_deref().zip(right.as_deref()).and_then(|(left, right)| in_one_unit(left, right));
        match plain {
            Some((left, right)) => satisfies(Some(&left), self.operator, Some(&right)),
            None => satisfies(left.as_deref(), self.operator, right.as_deref()),
        }
    }
}

impl DeviceOperand {
    fn parse(text: &str) -> Self {
        let name = text.strip_prefix("${").and_then(|t| t.strip_suffix('}')).map(str::trim);
        match name.and_then(|name| name.strip_prefix("device.")) {
            Some(name) => Self::Device(name.to_owned()),
            None => Self::Literal(text.to_owned()),
        }
    }

    fn value<'a>(&'a self, device: &'a NodeDevice) -> Option<Cow<'a, str>> {
        let name = match self {
            Self::Literal(text) => return Some(text.into()),
            Self::Device(name) => name.as_str(),
        };
        match name {
            "vendor" => Some((&device.vendor).into()),
            "type" => Some((&device.kind).into()),
            "model" => Some((&device.model).into()),
            "ids" => {
                let ids: Vec<&str> = device.instances.iter().map(|instance| instance.id.as_str()).collect();
                Some(ids.join(",").into())
            }
            name => device.attributes.get(name.strip_prefix("attr.")?).map(Into::into),
        }
    }
}

/// Enough devices that will do, of one model.
#[derive(Debug)]
pub(super) struct DeviceFilter(DeviceRequest);

impl DeviceFilter {
    pub fn new(ask: &DeviceAsk) -> Self {
        Self(DeviceRequest::new(ask))
    }
}

impl Filter for DeviceFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        let mut fitting = node.devices.iter().filter(|device| self.0.accepts(device));
        if fitting.any(|device| healthy(device) >= self.0.ask.count as usize) {
            return Ok(());
        }
        Err(FilterRefusal::Filtered(format!("missing devices {:?}", self.0.ask.name)))
    }

    /// Fewer of what the node has, or another model.
    fn remedy(&self, node: &Node, reason: &str) -> String {
        let (name, count) = (&self.0.ask.name, self.0.ask.count as usize);
        let fewer = node.devices.iter().filter(|device| self.0.accepts(device)).map(healthy).max();
        let kind = name.split('/').nth(1).unwrap_or(name);
        let mut others = node.devices.iter().filter(|device| device.kind == kind && healthy(device) >= count);
        match (fewer, others.next()) {
            (Some(fewer), _) if fewer > 0 => format!("ask for {fewer} {name} instead of {count}"),
            (_, Some(other)) if !self.0.ask.names(other) => format!("ask for {other} instead of {name}"),
            (_, Some(_)) => format!("drop the constraints on {name}"),
            _ => format!("drop what says: {reason}"),
        }
    }

    fn is_unique(&self) -> bool {
        let is_ids = |side: &DeviceOperand| matches!(side, DeviceOperand::Device(name) if name == "ids");
        self.0.conditions.iter().any(|condition| is_ids(&condition.left) || is_ids(&condition.right))
    }
}

fn healthy(device: &NodeDevice) -> usize {
    device.instances.iter().filter(|instance| instance.healthy).count()
}

/// Enough cores that can be had for oneself.
#[derive(Debug)]
pub(super) struct CoreFilter(pub u32);

impl Filter for CoreFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        if node.cores.len() >= self.0 as usize {
            return Ok(());
        }
        Err(FilterRefusal::Filtered(format!("fewer than {} reservable cores", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{
        constraint::{Affinity, Constraint},
        device::DeviceInstance,
    };

    use super::*;

    fn device(model: &str, memory: &str) -> NodeDevice {
        NodeDevice {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: model.into(),
            attributes: [("memory".to_owned(), memory.to_owned())].into(),
            instances: vec![DeviceInstance { id: "g0".into(), healthy: true }],
        }
    }

    fn request(constraint: (&str, &str, &str)) -> DeviceRequest {
        let (left, operator, right) = constraint;
        let operator = Operator::parse(operator).unwrap();
        DeviceRequest::new(&DeviceAsk {
            name: "gpu".into(),
            count: 1,
            constraints: vec![Constraint { left: left.into(), operator, right: right.into() }],
            affinities: vec![Affinity {
                left: "${device.model}".into(),
                operator: Operator::Equal,
                right: "A100".into(),
                weight: -50,
            }],
            ..DeviceAsk::default()
        })
    }

    #[test]
    fn constraints_are_about_the_device() {
        let a100 = device("A100", "40 GiB");
        for (constraint, expected) in [
            (("${device.attr.memory}", ">=", "16384 MiB"), true),
            (("${device.attr.memory}", ">", "40960 MiB"), false),
            (("${device.model}", "set_contains_any", "A10,A100"), true),
            (("${device.vendor}", "=", "amd"), false),
            (("${device.ids}", "set_contains", "g0"), true),
            (("${device.attr.driver}", "is_set", ""), false),
        ] {
            assert_eq!(request(constraint).accepts(&a100), expected, "{constraint:?}");
        }
    }

    #[test]
    fn an_affinity_weighs_devices_that_will_do() {
        let request = request(("${device.vendor}", "=", "nvidia"));
        assert_eq!([device("A100", "1 B"), device("T4", "1 B")].map(|d| request.affinity(&d)), [-1.0, 0.0]);
    }
}
