job "web" {
  type = "batch"
  group "app" {
    disconnect {
      lost_after           = "1h"
      stop_on_client_after = "1m"
      reconcile            = "newest"
    }
    max_run_duration = "0s"
    update {
      stagger = "-1s"
    }
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
  group "old" {
    max_client_disconnect        = "1h"
    stop_after_client_disconnect = "1m"
    disconnect {
      replace = false
    }
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
    }
  }
}
