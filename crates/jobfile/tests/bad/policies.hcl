job "web" {
  group "app" {
    restart {
      attempts = 10
      interval = "1m"
      delay    = "15s"
    }
    reschedule {
      attempts = 3
      delay    = "1s"
    }
    task "server" {
      driver = "container"
      restart {
        interval = "1s"
      }
    }
  }
  group "other" {
    reschedule {
      delay          = "1m"
      delay_function = "fibonacci"
      max_delay      = "30s"
      unlimited      = true
    }
    task "server" {
      driver = "container"
    }
  }
}
