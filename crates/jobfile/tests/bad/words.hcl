job "web" {
  type = "servce"
  group "app" {
    restart {
      mode = "never"
    }
    reschedule {
      delay_function = "linear"
    }
    network {
      mode = "bridge"
    }
    task "server" {
      driver      = "container"
      kill_signal = "TERM"
    }
  }
  group "other" {
    network {
      mode = "hots"
    }
    task "server" {
      driver      = "container"
      kill_signal = "sigint"
    }
  }
}
