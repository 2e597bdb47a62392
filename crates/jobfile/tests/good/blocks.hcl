# Every block that is kept, whether or not anything acts upon it.
job "shop" {
  type = "batch"

  periodic {
    crons            = ["@daily", "*/15 8-18 * * mon-fri"]
    prohibit_overlap = true
    time_zone        = "Europe/Berlin"
  }
  parameterized {
    payload       = "required"
    meta_required = ["order"]
    meta_optional = ["note"]
  }
  affinity {
    attribute = "${node.class}"
    value     = "fast"
    weight    = -20
  }
  update {
    max_parallel = 3
  }
  migrate {
    max_parallel = 2
  }
  reschedule {
    attempts = 3
    interval = "1h"
  }
  multiregion {
    strategy {
      max_parallel = 1
      on_failure   = "fail_all"
    }
    region "west" {
      count       = 2
      datacenters = ["west-1"]
    }
  }
  ui {
    description = "The **shop**"
    link {
      label = "Runbook"
      url   = "https://wiki.example.org/shop"
    }
  }
  vault {
    role = "shop"
    env  = false
  }

  group "web" {
    count            = 3
    max_run_duration = "1h"
    # It is waited for when its node goes silent: see below.

    affinity {
      attribute = "${attr.kernel.version}"
      version   = ">= 6.1"
    }
    update {
      canary       = 1
      auto_promote = true
    }
    disconnect {
      lost_after = "6h"
      replace    = false
      reconcile  = "keep_original"
    }
    consul {
      namespace = "shop"
    }
    volume "data" {
      type            = "csi"
      source          = "shop-data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime"]
      }
    }
    network {
      mode     = "bridge"
      hostname = "shop"
      dns {
        servers = ["10.0.0.53"]
      }
      cni {
        args = { a = "b" }
      }
      port "http" {
        to           = 8080
        host_network = "public"
      }
      port "admin" {
        static           = 9000
        ignore_collision = true
      }
    }
    service {
      name     = "shop"
      provider = "nomad"
      port     = "http"
      tags     = ["web", "v${NOMAD_META_version}"]
      meta {
        tier = "front"
      }
      check {
        type     = "http"
        path     = "/health"
        interval = "10s"
        timeout  = "2s"
        header {
          Accept = ["application/json"]
        }
        check_restart {
          limit = 3
          grace = "90s"
        }
        success_codes = ["204", "300-399"]
        expose = true
      }
      check {
        type     = "script"
        task     = "migrate"
        command  = "/bin/check"
        interval = "1m"
        timeout  = "5s"
      }
      weights {
        passing = 10
      }
      connect {
        sidecar_service {
          proxy {
            upstreams {
              destination_name = "stock"
              local_bind_port  = 5000
            }
            transparent_proxy {
              exclude_outbound_ports = [22, 25]
            }
            config {
              protocol = "http"
            }
          }
        }
        sidecar_task {
          kill_timeout = "10s"
          resources {
            cpu = 50
          }
        }
        gateway {
          proxy {
            envoy_gateway_bind_addresses "all" {
              address = "0.0.0.0"
              port    = 8443
            }
          }
        }
      }
    }
    scaling {
      min     = 1
      max     = 5
      enabled = false
      policy {
        cooldown = "1m"
        check "load" {
          source = "prometheus"
        }
      }
    }

    task "migrate" {
      driver = "container"
      lifecycle {
        hook = "prestart"
      }
    }
    task "server" {
      driver = "container"
      kind   = "connect-proxy:shop"

      artifact {
        source      = "https://example.org/shop.tar.gz"
        destination = "local/app"
        mode        = "dir"
        options {
          checksum = "sha256:abc"
        }
        headers = { "X-Token" = "${NOMAD_META_token}" }
      }
      template {
        data          = <<-END
          port {{ env "NOMAD_PORT_http" }}
        END
        destination   = "local/server.conf"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        uid           = 1000
        wait {
          min = "2s"
          max = "10s"
        }
      }
      template {
        source      = "local/app/env.tpl"
        destination = "secrets/env"
        env         = true
        perms       = "600"
        change_mode = "script"
        change_script {
          command       = "/bin/reload"
          args          = ["now"]
          fail_on_error = true
        }
      }
      dispatch_payload {
        file = "order.json"
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
        read_only   = true
      }
      identity {
        env = true
      }
      identity {
        name        = "aws"
        aud         = ["sts.amazonaws.com"]
        file        = true
        ttl         = "1h"
        change_mode = "restart"
      }
      secret "db" {
        provider = "nomad"
        path     = "nomad/jobs/shop/db"
        config {
          namespace = "shared"
          files     = "secrets/db"
        }
      }
      action "flush" {
        command = "/bin/flush"
        args    = ["all"]
      }
      schedule {
        cron {
          start    = "0 8 * * *"
          end      = "0 18"
          timezone = "UTC"
        }
      }
      csi_plugin {
        id        = "nfs"
        type      = "node"
        mount_dir = "/csi"
      }
      scaling "cpu" {
        min = 100
        max = 800
      }
      service {
        name = "shop-admin"
        port = "admin"
      }
      consul {}
      restart {
        render_templates = true
      }
      logs {
        enabled = false
      }
      resources {
        cores      = 2
        memory     = 256
        memory_max = 512
        secrets    = 4
        device "nvidia/gpu/A100" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "40 GiB"
          }
          affinity {
            attribute = "${device.model}"
            value     = "A100"
          }
        }
        device "gpu" {
          share = 250
        }
        numa {
          affinity = "require"
          devices  = ["nvidia/gpu/A100"]
        }
      }
    }
  }
}
