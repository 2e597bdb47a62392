variable "count" { type = number }
job "web" {
  type     = "batch"
  priority = var.count # a number
  group "app" {
    task "server" {
      driver = "mock_driver"
      template {
        data        = "x"
        destination = "local/x"
      }
    }
  }
}
