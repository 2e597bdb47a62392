# What a service is told that says as little as it can: Nomad's defaults.
job "web" {
  group "front" {
    network {
      mode = "bridge"
      port "http" { to = -1 }
    }
    scaling {
      max = 5
    }
    service {
      port = "http"
      check_restart {
        limit = 3
        grace = "90s"
      }
      on_update = "ignore_warnings"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
      check {
        type     = "http"
        path     = "/"
        interval = "10s"
        timeout  = "2s"
        on_update = "ignore"
        check_restart { limit = 5 }
      }
    }
    task "server" {
      driver = "mock_driver"
      service {
        name = "${JOB}-${TASKGROUP}-${TASK}-admin"
        port = "http"
      }
      service {
        name = "${BASE}"
        port = "http"
        task = "server"
      }
      resources { memory_max = -1 }
    }
  }
}
