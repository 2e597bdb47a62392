# Every block and attribute of the language.
job "web" {
  region      = "north"
  namespace   = "team-a"
  name        = "The web site"
  type        = "service"
  priority    = 70
  all_at_once = true
  datacenters = ["dc1", "dc2-*"]
  node_pool   = "gpu"

  meta {
    owner = "web team"
    tier  = 1
  }

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    distinct_hosts = true
  }
  spread {
    attribute = "${node.datacenter}"
    weight    = 80
    target "dc1" {
      percent = 60
    }
    target "dc2-a" {
      percent = 40
    }
  }

  group "app" {
    count          = 3
    shutdown_delay = "1m30s"
    meta           = { "app.kind" = "frontend", plain = true }

    restart {
      attempts = 5
      interval = "10m"
      delay    = "20s"
      mode     = "delay"
    }
    reschedule {
      attempts       = 2
      interval       = "1h"
      delay          = "10s"
      delay_function = "fibonacci"
      max_delay      = "5m"
    }
    ephemeral_disk {
      size    = 500
      sticky  = true
      migrate = true
    }
    network {
      mode = "host"
      port "http" {
        to = 8080
      }
      port "admin" {
        static = 9000
      }
    }
    spread {
      attribute = "${meta.rack}"
    }

    task "server" {
      driver         = "custom"
      user           = "www"
      kill_timeout   = "20s"
      kill_signal    = "SIGINT"
      leader         = true
      shutdown_delay = "500ms"
      meta           = {}

      config {
        image = "registry.example.org/web:${NOMAD_META_version}"
        ports = ["http", "admin"]
        ratio = 0.5
        mount {
          type   = "bind"
          source = "data"
        }
        mount {
          type   = "tmpfs"
          source = null
        }
        auth "registry" {
          username = "x"
        }
      }
      env {
        ADDRESS = "${NOMAD_IP_http}:${NOMAD_PORT_http}"
        HOST    = "${env["HOSTNAME"]}"
        WORKERS = 4
        DOLLARS = "$${not a reference} costs $5 and 5%"
      }
      resources {
        cpu    = 500
        memory = 256
      }
      restart {
        attempts = 1
      }
      logs {
        max_files     = 3
        max_file_size = 20
        disabled      = false
      }
      constraint {
        attribute = "${attr.cpu.arch}"
        operator  = "!="
        value     = "arm"
      }
    }

    task "sidecar" {
      driver = "mock_driver"
      config {
        run_for = "30s"
      }
    }
  }
}
