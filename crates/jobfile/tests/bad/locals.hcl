locals {
  first  = local.second
  second = [local.third]
  third  = local.first
  twice  = 1
  twice  = 2
  broken = 1 / 0
  needs  = local.broken + 1
  block {}
}
job "web" {
  task "server" {
    driver = "container"
  }
}
