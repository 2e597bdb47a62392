job "web" {
  group "app" {
    volume "data" {
      source = "disk"
    }
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
      volume_mount {
        destination = "/data"
      }
      template {
        data        = "x"
        destination = "local/x"
        change_mode = "script"
        change_script {
          args = ["-r"]
        }
      }
    }
  }
}
