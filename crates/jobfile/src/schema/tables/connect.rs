//! Consul's service mesh, in as far as a job file speaks of it.

use super::*;

/// How a service takes part in the mesh.
pub(super) static CONNECT: Schema = schema(
    "connect",
    &[
        flag("native", "Native"),
        block("gateway", "Gateway", &GATEWAY),
        block("sidecar_service", "SidecarService", &SIDECAR_SERVICE),
        block("sidecar_task", "SidecarTask", &SIDECAR_TASK),
    ],
);

static SIDECAR_SERVICE: Schema = schema(
    "sidecar_service",
    &[
        texts("tags", "Tags"),
        text("port", "Port"),
        block("proxy", "Proxy", &PROXY),
        flag("disable_default_tcp_check", "DisableDefaultTCPCheck"),
        text_map("meta", "Meta"),
    ],
);

/// The task that runs the proxy, in as far as it differs from the usual one.
pub(crate) static SIDECAR_TASK: Schema = schema(
    "sidecar_task",
    &[
        text("name", "Name"),
        text("driver", "Driver"),
        text("user", "User"),
        settings("config", "Config"),
        text_map("env", "Env"),
        block("resources", "Resources", &RESOURCES),
        text_map("meta", "Meta"),
        duration("kill_timeout", "KillTimeout"),
        block("logs", "LogConfig", &LOGS),
        duration("shutdown_delay", "ShutdownDelay"),
        text("kill_signal", "KillSignal"),
        blocks("volume_mount", "VolumeMounts", &VOLUME_MOUNT),
        blocks("identity", "Identities", &IDENTITY),
    ],
);

static PROXY: Schema = schema(
    "proxy",
    &[
        text("local_service_address", "LocalServiceAddress"),
        whole("local_service_port", "LocalServicePort"),
        block("expose", "Expose", &EXPOSE),
        block("", "ExposeConfig", &EXPOSE),
        blocks("upstreams", "Upstreams", &UPSTREAM),
        block("transparent_proxy", "TransparentProxy", &TRANSPARENT_PROXY),
        settings("config", "Config"),
    ],
);

static EXPOSE: Schema =
    schema("expose", &[blocks("path", "Paths", &EXPOSE_PATH), blocks("", "Path", &EXPOSE_PATH)]);

static EXPOSE_PATH: Schema = schema(
    "path",
    &[
        text("path", "Path"),
        text("protocol", "Protocol"),
        whole("local_path_port", "LocalPathPort"),
        text("listener_port", "ListenerPort"),
    ],
);

static UPSTREAM: Schema = schema(
    "upstreams",
    &[
        text("destination_name", "DestinationName"),
        text("destination_namespace", "DestinationNamespace"),
        text("destination_peer", "DestinationPeer"),
        text("destination_partition", "DestinationPartition"),
        text("destination_type", "DestinationType"),
        whole("local_bind_port", "LocalBindPort"),
        text("datacenter", "Datacenter"),
        text("local_bind_address", "LocalBindAddress"),
        text("local_bind_socket_path", "LocalBindSocketPath"),
        text("local_bind_socket_mode", "LocalBindSocketMode"),
        block("mesh_gateway", "MeshGateway", &MESH_GATEWAY),
        settings("config", "Config"),
    ],
);

static MESH_GATEWAY: Schema = schema("mesh_gateway", &[text("mode", "Mode")]);

static TRANSPARENT_PROXY: Schema = schema(
    "transparent_proxy",
    &[
        text("uid", "UID"),
        whole("outbound_port", "OutboundPort"),
        texts("exclude_inbound_ports", "ExcludeInboundPorts"),
        field("exclude_outbound_ports", "ExcludeOutboundPorts", Shape::Wholes),
        texts("exclude_outbound_cidrs", "ExcludeOutboundCIDRs"),
        texts("exclude_uids", "ExcludeUIDs"),
        flag("no_dns", "NoDNS"),
    ],
);

static GATEWAY: Schema = schema(
    "gateway",
    &[
        block("proxy", "Proxy", &GATEWAY_PROXY),
        block("ingress", "Ingress", &INGRESS),
        block("terminating", "Terminating", &TERMINATING),
        block("mesh", "Mesh", &MESH),
    ],
);

static MESH: Schema = schema("mesh", &[]);

static GATEWAY_PROXY: Schema = schema(
    "proxy",
    &[
        duration("connect_timeout", "ConnectTimeout"),
        flag("envoy_gateway_bind_tagged_addresses", "EnvoyGatewayBindTaggedAddresses"),
        labelled("envoy_gateway_bind_addresses", "EnvoyGatewayBindAddresses", &BIND_ADDRESS),
        flag("envoy_gateway_no_default_bind", "EnvoyGatewayNoDefaultBind"),
        text("envoy_dns_discovery_type", "EnvoyDNSDiscoveryType"),
        settings("config", "Config"),
    ],
);

static BIND_ADDRESS: Schema = labelled_schema(
    "envoy_gateway_bind_addresses",
    "Name",
    &[text("address", "Address"), whole("port", "Port")],
);

static INGRESS: Schema =
    schema("ingress", &[block("tls", "TLS", &TLS), blocks("listener", "Listeners", &LISTENER)]);

static TLS: Schema = schema(
    "tls",
    &[
        flag("enabled", "Enabled"),
        text("tls_min_version", "TLSMinVersion"),
        text("tls_max_version", "TLSMaxVersion"),
        texts("cipher_suites", "CipherSuites"),
        block("sds", "SDS", &SDS),
    ],
);

static SDS: Schema =
    schema("sds", &[text("cluster_name", "ClusterName"), text("cert_resource", "CertResource")]);

static LISTENER: Schema = schema(
    "listener",
    &[whole("port", "Port"), text("protocol", "Protocol"), blocks("service", "Services", &INGRESS_SERVICE)],
);

static INGRESS_SERVICE: Schema = schema(
    "service",
    &[
        text("name", "Name"),
        texts("hosts", "Hosts"),
        block("tls", "TLS", &TLS),
        block("request_headers", "RequestHeaders", &HEADERS),
        block("response_headers", "ResponseHeaders", &HEADERS),
        whole("max_connections", "MaxConnections"),
        whole("max_pending_requests", "MaxPendingRequests"),
        whole("max_concurrent_requests", "MaxConcurrentRequests"),
    ],
);

static HEADERS: Schema =
    schema("headers", &[text_map("add", "Add"), text_map("set", "Set"), texts("remove", "Remove")]);

static TERMINATING: Schema = schema("terminating", &[blocks("service", "Services", &LINKED_SERVICE)]);

static LINKED_SERVICE: Schema = schema(
    "service",
    &[
        text("name", "Name"),
        text("ca_file", "CAFile"),
        text("cert_file", "CertFile"),
        text("key_file", "KeyFile"),
        text("sni", "SNI"),
    ],
);
