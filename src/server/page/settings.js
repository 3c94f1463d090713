// What a conversation can set, as data: the form, the checks and the request are all made from it.

const kMaxSeed = 2 ** 32 - 1;

// Numbers of the request. Left empty, a parameter is not sent and the model's own default holds.
export const kParameters = [
    {
        name: "temperature",
        label: "Temperature",
        min: 0,
        max: 2,
        step: 0.05,
        hint: "0 always takes the likeliest token",
    },
    { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01, hint: "share of the likelihood to choose from" },
    { name: "top_k", label: "Top k", min: 0, max: 1000000, step: 1, hint: "how many tokens to choose from" },
    {
        name: "max_tokens",
        label: "Longest reply",
        min: 1,
        max: 10000000,
        step: 1,
        hint: "in tokens, thinking included",
    },
    { name: "seed", label: "Seed", min: 0, max: kMaxSeed, step: 1, hint: "the same seed gives the same reply" },
];

// The settings of a new conversation, as far as the user has not chosen others.
export function default_settings() {
    const parameters = Object.fromEntries(kParameters.map((parameter) => [parameter.name, null]));
    return { model: "", system: "", thinking: false, tools: "", ...parameters };
}

// `value`, from storage or a file, as settings: what has the wrong type or size is left at its default.
export function settings_from(value) {
    const settings = default_settings();
    for (const [name, standard] of Object.entries(settings)) {
        const found = value?.[name];
        const parameter = kParameters.find((candidate) => candidate.name === name);
        if (parameter ? is_within(parameter, found) : typeof found === typeof standard) {
            settings[name] = found;
        }
    }
    return settings;
}

// Whether `value` is a number that the parameter may take.
export function is_within(parameter, value) {
    return (
        Number.isFinite(value) &&
        value >= parameter.min &&
        value <= parameter.max &&
        (parameter.step < 1 || Number.isInteger(value))
    );
}

// What is wrong with `text` as the list of tools, or "" when it can be sent.
export function fault_of_tools(text) {
    if (text.trim() === "") {
        return "";
    }
    let tools;
    try {
        tools = JSON.parse(text);
    } catch (error) {
        return `This is not JSON: ${error.message}`;
    }
    const is_sound = Array.isArray(tools) && tools.every((tool) => typeof tool?.function?.name === "string");
    return is_sound ? "" : 'Tools are a list of {"type": "function", "function": {"name": …}}.';
}

// The request that asks for the next reply of a conversation. Thinking is not sent back: the model does not want it.
export function request_body(conversation) {
    const settings = conversation.settings;
    const body = {
        model: settings.model,
        messages: [],
        stream: true,
        stream_options: { include_usage: true },
        chat_template_kwargs: { enable_thinking: settings.thinking },
    };
    if (settings.system.trim() !== "") {
        body.messages.push({ role: "system", content: settings.system });
    }
    for (const message of conversation.messages) {
        body.messages.push(...sent_messages(message));
    }
    for (const { name } of kParameters) {
        if (settings[name] !== null) {
            body[name] = settings[name];
        }
    }
    if (settings.tools.trim() !== "" && fault_of_tools(settings.tools) === "") {
        body.tools = JSON.parse(settings.tools);
    }
    return body;
}

// One message of ours as those of the API: a reply with tool calls is followed by their results. A reply that failed
// before its first word is nothing the model has said.
function sent_messages(message) {
    if (message.role === "user") {
        return [{ role: "user", content: message.content }];
    }
    if (message.calls.length === 0) {
        return message.content === "" ? [] : [{ role: "assistant", content: message.content }];
    }
    const calls = message.calls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
    }));
    const results = message.calls
        .filter((call) => call.result !== null)
        .map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result }));
    return [{ role: "assistant", content: message.content, tool_calls: calls }, ...results];
}
