variable "image" {
  default = "nginx"
}
locals {
  count = 2
}
job "web" {
  group "app" {
    count = local.cuont
    task "server" {
      driver = "container"
      config {
        image = var.imgae
      }
    }
  }
}
