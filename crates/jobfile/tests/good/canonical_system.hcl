# What a system job is told that says as little as it can.
job "logs" {
  type = "system"
  group "all" {
    task "run" { driver = "mock_driver" }
  }
}
