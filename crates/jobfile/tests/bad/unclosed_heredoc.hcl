job "web" {
  group "app" {
    task "server" {
      driver = "container"
      config {
        script = <<-END
          echo hello
      }
    }
  }
}
