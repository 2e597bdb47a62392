job "node-exporter" {
  type = "system"
  group "exporter" {
    task "exporter" {
      driver = "container"
    }
  }
}
