job "web" {
  group "app" {
    task "server" {
      driver = "docker"
      config {
        image              = "shop"
        network_mode       = "hots"
        image_pull_timeout = "5 minutes"
        pids_limit         = 0
        cpu_cfs_period     = 100
        cap_add            = ["SYS_TIME", "CAP_CHOWN", "all"]
        cap_drop           = ["net_raw", "chwon"]
      }
      volume_mount {
        volume      = "data"
        destination = "/local/"
      }
    }
    task "waiting" {
      driver = "docker"
      config {
        image              = "shop"
        network_mode       = "${meta.mode}"
        image_pull_timeout = "0s"
        pids_limit         = 100000
        cap_drop           = ["${meta.dropped}"]
      }
    }
    task "cage" {
      driver = "exec"
      config {
        command  = "sleep"
        pid_mode = "host"
        ipc_mode = "host"
        cap_add  = ["sys_admin"]
      }
    }
    volume "data" {
      type   = "host"
      source = "disk"
    }
  }
  group "closed" {
    network {
      mode = "none"
    }
    task "open" {
      driver = "raw_exec"
      config {
        command = "true"
      }
    }
  }
}
