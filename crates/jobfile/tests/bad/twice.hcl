job "web" {
  priority = 10
  priority = 20
  group "app" {
    restart {
      attempts = 1
    }
    restart {
      attempts = 2
    }
    network {
      port "http" {}
      port "http" {}
      port "a" {
        static = 8080
      }
      port "b" {
        static = 8080
      }
    }
    task "server" {
      driver = "container"
      leader = true
      env {
        A = "1"
        A = "2"
      }
      config {
        image = "a"
        image = "b"
      }
    }
    task "server" {
      driver = "container"
      leader = true
    }
  }
  group "app" {
    task "x" {
      driver = "container"
    }
  }
}
