job "report" {
  type = "batch"
  periodic {
    cron  = "every day"
    crons = ["@daily"]
  }
  task "make" {
    driver = "container"
  }
}
