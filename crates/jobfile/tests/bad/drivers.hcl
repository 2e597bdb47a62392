job "settings" {
  group "g" {
    task "web" {
      driver = "docker"
      config {
        imge       = "nginx"
        args       = "-g"
        force_pull = "true"
        pids_limit = 0.5
        privileged = true
        volumes    = ["/etc:/etc"]
        mount {
          type = "bind"
        }
        nonsense = 1
        labels {
          team = "web"
        }
      }
    }
    task "host" {
      driver = "raw_exec"
      config {
        command = ["date"]
        image   = "nginx"
      }
    }
    task "mock" {
      driver = "mock_driver"
      config {
        run_fo = "30s"
      }
    }
    task "theirs" {
      driver = "somebody_elses"
      config {
        anything = 1
      }
    }
  }
}
