//! Networks and ports.

use super::*;

/// A group's network.
pub(crate) static NETWORK: Schema = schema(
    "network",
    &[
        text("mode", "Mode"),
        blocks("port", "", &PORT),
        blocks("", "DynamicPorts", &PORT),
        blocks("", "ReservedPorts", &PORT),
        text("hostname", "Hostname"),
        block("dns", "DNS", &DNS),
        block("cni", "CNI", &CNI),
        whole("mbits", "MBits"),
        text("", "Device"),
        text("", "CIDR"),
        text("", "IP"),
    ],
);

/// A port.
pub(crate) static PORT: Schema = labelled_schema(
    "port",
    "Label",
    &[
        whole("static", "Value"),
        whole("to", "To"),
        text("host_network", "HostNetwork"),
        flag("ignore_collision", "IgnoreCollision"),
    ],
);

static DNS: Schema =
    schema("dns", &[texts("servers", "Servers"), texts("searches", "Searches"), texts("options", "Options")]);

static CNI: Schema = schema("cni", &[text_map("args", "Args")]);
