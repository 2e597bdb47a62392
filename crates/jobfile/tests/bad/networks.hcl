job "web" {
  group "app" {
    network {
      mode = "brigde"
      port "http" {
        static = 80
      }
      port "https" {
        static = 80
      }
      port "http" {
        to = -2
      }
    }
    network {}
    task "server" {
      driver = "container"
    }
  }
}
