variable "image" {
  type = string
}
variable "count" {
  type    = number
  default = [1]
}
job "web" {
  task "server" {
    driver = "container"
  }
}
