# A job file that is told what to run.
#
#   berth job run -var count=3 -var 'greetings=["hello", "moin"]' FILE
#   NOMAD_VAR_name=there berth job run FILE

# A value from outside, with a default.
variable "name" {
  type    = string
  default = "world"
}

variable "count" {
  type    = number
  default = 1

  validation {
    condition     = var.count > 0
    error_message = "there must be one at least"
  }
}

variable "greetings" {
  type    = list(string)
  default = ["hello"]
}

variable "node" {
  description = "the only node that it may run on; any if empty"
  default     = ""
}

# Values made of others.
locals {
  lines = [for greeting in var.greetings : "echo ${greeting} ${var.name}"]
}

job "example-variables" {
  type = "batch"

  group "greet" {
    count = var.count

    task "say" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", join("; ", local.lines)]
      }

      # A block for each item of a list: one if a node is named, else none.
      dynamic "constraint" {
        for_each = var.node == "" ? [] : [var.node]

        content {
          attribute = "${node.unique.name}"
          value     = constraint.value
        }
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
