job "settings" {
  group "g" {
    task "web" {
      driver = "docker"
      config {
        imge       = "nginx"
        args       = "-g"
        force_pull = "true"
        pids_limit = 0.5
        cpuset_cpus = "0-1"
        auth {
          usrname  = "deploy"
          password = 7
        }
        privileged = true
        volumes    = ["/srv:/srv", "/srv", "data:/data:z", "${meta.dir}:/x"]
        mount {
          type    = "volume"
          tagret  = "/data"
          bind_options {
            propagation = "shared"
          }
        }
        mount {
          type   = "tmpfs"
          target = "/cache"
          tmpfs_options {
            size = "1GB"
          }
        }
        pull_policy = "sometimes"
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
    task "misspelt" {
      driver = "dokcer"
    }
    task "theirs" {
      driver = "somebody_elses"
      config {
        anything = 1
      }
    }
  }
}
