# Bunny as a driver: see tests/clients/drivers/common.py. Usage: ruby hold.rb URL HELD BESIDE COUNT SIZE WAY
require "bunny"
require "json"

WINDOW = 50 # Publishes that may be unconfirmed at once.
WRITING = Mutex.new

def tell(kind, value)
  WRITING.synchronize do
    puts({ kind => value }.to_json)
    $stdout.flush
  end
end

def connect(url)
  # A call waits for its answer as long as the publisher is held.
  connection = Bunny.new(url, automatically_recover: false, continuation_timeout: 3_600_000, logger: Logger.new(File::NULL))
  connection.start
  connection.on_blocked { |blocked| tell("blocked", blocked.reason) }
  connection.on_unblocked { tell("unblocked", true) }
  connection
end

def consume(channel, beside)
  channel.basic_consume(beside, "", false) do |delivery, _properties, body|
    channel.basic_ack(delivery.delivery_tag.to_i)
    tell("received", Integer(body.strip))
  end
end

def publish(channel, held, count, size, confirms)
  room = SizedQueue.new(WINDOW)
  if confirms
    channel.confirm_select(lambda do |tag, _multiple, is_refused|
      tell(is_refused ? "refused" : "confirmed", tag - 1) # Delivery tags count from 1, messages from 0.
      room.pop
    end)
  end
  count.times do |number|
    room.push(true) if confirms
    channel.basic_publish(number.to_s.ljust(size), "", held)
  end
  channel.wait_for_confirms if confirms
  tell("done", true)
rescue Bunny::Exception, IOError, SystemCallError => failure
  tell("failed", failure.message)
end

url, held, beside, count, size, way = ARGV
confirms = way == "confirms"
tell("version", Bunny::VERSION)
publishing = connect(url)
consuming = confirms ? publishing : connect(url)
consume(consuming.create_channel, beside)
channel = publishing.create_channel
Thread.new { publish(channel, held, Integer(count), Integer(size), confirms) }
$stdin.read
begin
  channel.queue_declare(held, passive: true) # Bunny tells why a channel was closed at the next call.
rescue Bunny::Exception => refusal
  tell("failed", refusal.message)
end
[consuming, publishing].uniq.each(&:close)
