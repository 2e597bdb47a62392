locals {
  a = [for i in range(1000) : "0123456789"]
  b = [for i in range(1000) : local.a]
  c = [for i in range(1000) : local.b]
}
job "web" {
  task "server" {
    driver = "container"
  }
}
