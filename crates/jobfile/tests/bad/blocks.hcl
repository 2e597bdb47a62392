variable "image" {
  default = "nginx"
}

job "web" {
  update {
    max_parallel = 2
  }
  periodic {
    cron = "@daily"
  }
  group "app" {
    service {
      port = "http"
    }
    task "server" {
      driver = "container"
      template {
        data = "x"
      }
      artifact {
        source = "https://example.org/x"
      }
      resources {
        cores = 2
      }
    }
  }
}
