job "ignored" {
  group "g" {
    task "web" {
      driver = "docker"
      config {
        image = "nginx"
        labels {
          team = "web"
        }
        logging {
          type = "json-file"
        }
        privileged = false
      }
    }
  }
}
