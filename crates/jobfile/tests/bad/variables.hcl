variable {
  default = 1
}
variable "image" {
  type = list(strng)
}
variable "tag" {
  defualt = "1"
}
variable "port" {
  type    = number
  default = "http"
  validation {
    condition = var.port > 0
  }
}
variables {
  nested {}
}
job "web" {
  task "server" {
    driver = "container"
  }
}
