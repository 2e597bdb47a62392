//! Host ports: the ones that a job names, and free ones for those it does not.

use berth_model::job::Port;

/// What is taken on one node.
#[derive(Debug, Default)]
pub struct TakenPorts<'a> {
    /// By allocations that have not ended, ascending.
    pub held: &'a [u16],
    /// By the operator, ascending.
    pub reserved: &'a [u16],
    /// By plans on their way, and the plan at work.
    pub claimed: &'a [u16],
    /// By allocations that will have ended: held, but free for their successor.
    pub inherited: &'a [u16],
}

impl TakenPorts<'_> {
    fn is_free(&self, port: u16) -> bool {
        self.reserved.binary_search(&port).is_err()
            && !self.claimed.contains(&port)
            && (self.held.binary_search(&port).is_err() || self.inherited.contains(&port))
    }
}

/// Why ports cannot be had, as users read it.
pub type PortRefusal = String;

/// Picks a host port for each of `ports`. `start` spreads dynamic ports over their range, so that one just given back
/// is not at once another's.
///
/// # Errors
/// When a named port is taken, or the dynamic range is full.
pub fn assign<'a>(
    ports: impl Iterator<Item = &'a Port> + Clone,
    taken: &TakenPorts<'_>,
    range: (u16, u16),
    start: u64,
) -> Result<Vec<u16>, PortRefusal> {
    let fixed = ports.clone().filter_map(|port| Some((port.fixed?, &port.label)));
    if let Some((number, label)) = fixed.clone().find(|(number, _)| !taken.is_free(*number)) {
        return Err(format!("network: port {label}={number} is taken"));
    }
    let fixed: Vec<u16> = fixed.map(|(number, _)| number).collect();
    let mut dynamic =
        dynamic_ports(range, start).filter(|port| taken.is_free(*port) && !fixed.contains(port));
    let full = || "network: no dynamic port is free".to_owned();
    ports.map(|port| port.fixed.or_else(|| dynamic.next()).ok_or_else(full)).collect()
}

fn dynamic_ports((first, last): (u16, u16), start: u64) -> impl Iterator<Item = u16> {
    let size = u64::from(last.saturating_sub(first)) + 1;
    (0..size).filter_map(move |step| u16::try_from(u64::from(first) + (start % size + step) % size).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(label: &str, fixed: Option<u16>) -> Port {
        Port { label: label.to_owned(), fixed, ..Port::default() }
    }

    #[test]
    fn named_ports_are_kept_and_others_picked_around_what_is_taken() {
        let ports = [port("http", Some(80)), port("a", None), port("b", None)];
        let taken = TakenPorts { held: &[20_000], claimed: &[20_001], ..TakenPorts::default() };
        assert_eq!(assign(ports.iter(), &taken, (20_000, 20_004), 0), Ok(vec![80, 20_002, 20_003]));
    }

    #[test]
    fn a_taken_port_is_refused_unless_inherited() {
        let ports = [port("http", Some(80))];
        let taken = TakenPorts { held: &[80], ..TakenPorts::default() };
        let refused = assign(ports.iter(), &taken, (20_000, 20_001), 0);
        assert_eq!(refused, Err("network: port http=80 is taken".to_owned()));
        let taken = TakenPorts { held: &[80], inherited: &[80], ..TakenPorts::default() };
        assert_eq!(assign(ports.iter(), &taken, (20_000, 20_001), 0), Ok(vec![80]));
    }

    #[test]
    fn a_full_range_is_refused() {
        let ports = [port("a", None), port("b", None)];
        let taken = TakenPorts { reserved: &[20_001], ..TakenPorts::default() };
        assert!(assign(ports.iter(), &taken, (20_000, 20_001), 9).is_err());
    }
}
