job "report" {
  type = "batch"
  periodic {
    cron  = "every day"
    time_zone = "Europe/Berlim"
    crons = ["@daily"]
  }
  task "make" {
    driver = "container"
  }
}
