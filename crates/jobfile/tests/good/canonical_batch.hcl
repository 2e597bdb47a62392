# What a batch job is told that says as little as it can.
job "report" {
  type = "batch"
  periodic { cron = "@daily" }
  group "all" {
    task "run" { driver = "mock_driver" }
  }
}
