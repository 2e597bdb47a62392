job "web" {
  group "app" {
    network {
      mode = "bridge"
      dns {
        servers = ["10.0.0.2"]
      }
    }
    task "bare" {
      driver = "raw_exec"
      config {
        command = "true"
      }
    }
    task "cage" {
      driver = "exec"
      config {
        command  = "true"
        pid_mode = "private"
      }
    }
  }
  group "host" {
    network {
      dns {
        servers = ["10.0.0.2"]
      }
    }
    task "open" {
      driver = "docker"
      config {
        image        = "shop"
        network_mode = "host"
        pids_limit   = 100
        cap_drop     = ["ALL", "cap_net_raw"]
        cap_add      = ["NET_BIND_SERVICE"]
      }
    }
  }
}
