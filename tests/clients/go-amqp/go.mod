module scopegate.test/amqp

go 1.24.0

require github.com/Azure/go-amqp v1.5.0
