// An agent as people write them, which knows nothing of ReplayKit: two SDKs, streams, tools side by side.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const question = "What is the weather in Paris, and what time is it?";
const tools = {
  get_weather: async ({ city }) => `sunny in ${city}`,
  get_time: async ({ zone }) => `noon ${zone}`,
};

async function askOpenAI() {
  const client = new OpenAI();
  const messages = [{ role: "user", content: question }];
  const offered = Object.keys(tools).map((name) => ({
    type: "function",
    function: { name, parameters: { type: "object" } },
  }));
  for (;;) {
    const stream = client.chat.completions.stream({ model: "small", messages, tools: offered });
    const message = (await stream.finalChatCompletion()).choices[0].message;
    if (!message.tool_calls?.length) return message.content.trim();
    messages.push(message);
    const results = await Promise.all(
      message.tool_calls.map((call) => tools[call.function.name](JSON.parse(call.function.arguments))),
    );
    message.tool_calls.forEach((call, index) => {
      console.log("tool", call.function.name, call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content: results[index] });
    });
  }
}

async function askAnthropic() {
  const client = new Anthropic();
  const messages = [{ role: "user", content: question }];
  const offered = Object.keys(tools).map((name) => ({ name, input_schema: { type: "object" } }));
  for (;;) {
    const message = await client.messages
      .stream({ model: "claude", max_tokens: 99, messages, tools: offered })
      .finalMessage();
    const uses = message.content.filter((block) => block.type === "tool_use");
    if (!uses.length) return message.content[0].text;
    const results = await Promise.all(uses.map((use) => tools[use.name](use.input)));
    uses.forEach((use) => console.log("tool", use.name, JSON.stringify(use.input)));
    messages.push({ role: "assistant", content: message.content });
    messages.push({
      role: "user",
      content: uses.map((use, index) => ({ type: "tool_result", tool_use_id: use.id, content: results[index] })),
    });
  }
}

const models = await new OpenAI().models.list();
console.log("models", models.data.map((model) => model.id).join());
console.log("openai", await askOpenAI());
console.log("anthropic", await askAnthropic());
