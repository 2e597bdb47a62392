job "web" {
  group "app" {
    task "before" {
      driver = "container"
      leader = true
      lifecycle {
        hook = "prestart"
      }
    }
    task "sometime" {
      driver = "container"
      lifecycle {
        sidecar = true
      }
    }
  }
}
