//! The ports of an allocation, as listings show them.

use berth_api::http::AllocationStub;

use super::is_live;

/// Its ports on its node by their labels, such as `http:20123`; none once it has ended, for then others may have them.
pub fn ports(alloc: &AllocationStub) -> String {
    let held = alloc.allocated_resources.iter().filter(|_| is_live(&alloc.client_status));
    let ports = held.flat_map(|held| &held.shared.ports);
    ports.map(|port| format!("{}:{}", port.label, port.value)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use berth_api::http::{AllocatedPort, AllocatedResources};

    use super::*;

    #[test]
    fn ports_are_those_of_what_has_not_ended() {
        let port = |label: &str, value: u16| AllocatedPort {
            label: label.into(),
            value,
            ..AllocatedPort::default()
        };
        let mut held = AllocatedResources::default();
        held.shared.ports = vec![port("http", 20_123), port("admin", 9_000)];
        let shown = |status: &str, held: Option<AllocatedResources>| {
            ports(&AllocationStub {
                client_status: status.into(),
                allocated_resources: held,
                ..AllocationStub::default()
            })
        };
        assert_eq!(shown("running", Some(held.clone())), "http:20123 admin:9000");
        assert_eq!(shown("complete", Some(held)), "");
        assert_eq!(shown("running", None), "");
    }
}
