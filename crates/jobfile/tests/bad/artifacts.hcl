job "web" {
  group "app" {
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
      artifact {
        source   = "https://example.org/x"
        insecure = true
      }
      artifact {
        source   = "https://example.org/y"
        insecure = false
      }
      artifact {
        destination = "local/../../x"
      }
    }
  }
}
