job "web" {
  update {
    min_healthy_time = "10m"
  }
  group "app" {
    update {
      healthy_deadline  = "5m"
      progress_deadline = "1m"
      health_check      = "check"
      auto_promote      = true
    }
    migrate {
      max_parallel     = -1
      healthy_deadline = "1s"
    }
    disconnect {
      lost_after           = "1h"
      stop_on_client_after = "1m"
      reconcile            = "keep_both"
    }
    task "server" {
      driver = "container"
    }
  }
}
